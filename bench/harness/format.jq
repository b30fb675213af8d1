# Formats numbers, names and tables (tab-separated lines).

def number:
  if type != "number" then (. // "-" | tostring)
  else (if . < 0 then -. else . end) as $size
  | if $size >= 1000 then round
    elif $size >= 100 then (. * 10 | round) / 10
    elif $size >= 10 then (. * 100 | round) / 100
    else (. * 1000 | round) / 1000 end
  | tostring end;

def bytes: if . % 1048576 == 0 then "\(. / 1048576)Mi" elif . % 1024 == 0 then "\(. / 1024)Ki" else tostring end;
def key_text($key): .[$key] | if $key == "bytes" then bytes else tostring end;

def median_lines:
  .rows as $rows
  | ($keys + (if $subject == "" then [] else [$subject] end) + [$values[0], "±%"] + $values[1:]),
    ($rows[]
     | [(.point | key_text($keys[]))] + (if $subject == "" then [] else [.subject] end)
       + [(.medians[$values[0]] | number), (.spreads[$values[0]] | if . == null then "-" else . * 1000 | round / 10 | tostring end)]
       + [.medians[$values[1:][]] | number]);

def ratio_lines:
  .ratios as $all
  | ([$all[].rivals[].of] | unique) as $known
  | [$rivals[][0], "our \($against[1])" | select(. as $name | $known | index($name))] as $of
  | select($of != [])
  | ($keys + [$of[] as $name | $ratios[] | "\(.) ÷ \($name)"]),
    ($all[] as $one
     | [($one.point | key_text($keys[]))]
       + [$of[] as $name | $ratios[] as $value
          | ($one.rivals | map(select(.of == $name)) | first | .values[$value]?)
          | if . == null then "-" else (. * 100 | round / 100 | tostring) end]);
