# write the generated tables of config/README.md: reference [nn-worker]
# shellcheck shell=bash
worker=${1:-build/release/bin/nn-worker}
readme=config/README.md
new=$(mktemp)
sed '/^<!-- begin of generated keys/q' $readme > "$new"
"$worker" --describe-config >> "$new"
echo '<!-- end of generated keys -->' >> "$new"
cat "$new" > $readme
rm "$new"
