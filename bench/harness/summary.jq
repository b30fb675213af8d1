# Computes medians, spreads and ratios from measurements (one object each).
#
# Input: keys; subject ("" if none); own; values; ratios; rivals: lists of subjects, of which the best counts; against: a
# key and its value, where our own is a rival too ([] if none).
# Output: {rows: [{point, subject, count, medians, spreads}], ratios: [{point, rivals: [{name, values}]}]}.

def median: sort | if length % 2 == 1 then .[(length - 1) / 2] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# Half the range over the median.
def spread: median as $middle | if $middle == 0 then 0 else (max - min) / 2 / $middle end;

def point: . as $sample | reduce $keys[] as $key ({}; .[$key] = $sample[$key]);
def place: . as $sample | [$keys[] as $key | $sample[$key]];
def subject_of: if $subject == "" then "" else .[$subject] end;
def present: map(select(. != null));

def row:
  . as $samples
  | {point: (.[0] | point), subject: (.[0] | subject_of), count: length}
  | .medians = reduce $values[] as $value ({}; .[$value] = ($samples | map(.[$value]) | present | if . == [] then null else median end))
  | .spreads = reduce $values[] as $value ({}; .[$value] = ($samples | map(.[$value]) | present | if . == [] then null else spread end));

# Ratios of our medians to a rival's.
def over($rival; $of):
  . as $mine
  | {name: $rival.subject, of: $of,
     values: (reduce $ratios[] as $value ({}; .[$value] = ($mine.medians[$value] / $rival.medians[$value])))};

# The best rival has the largest value of the first ratio. $all: the rows of all points.
def ratios_of_point($all):
  . as $rows
  | (map(select(.subject == $own)) | first) as $mine
  | select($mine != null)
  | {point: $mine.point,
     rivals: ([$rivals[] as $names
         | ($rows | map(select(.subject as $name | $names | index($name))) | max_by(.medians[$ratios[0]])) as $rival
         | select($rival != null)
         | $mine | over($rival; $names[0])]
       + [select($against != [] and $mine.point[$against[0]] != $against[1])
         | ($mine.point + {($against[0]): $against[1]}) as $there
         | ($all | map(select(.subject == $own and .point == $there)) | first) as $rival
         | select($rival != null)
         | $mine | over($rival; "our \($against[1])")])};

group_by([place, subject_of])
| map(row)
| . as $all
| {rows: (group_by(.point | place) | map(sort_by(.subject != $own)) | add),
   ratios: (if $subject == "" then [] else group_by(.point | place) | map(ratios_of_point($all)) | map(select(.rivals != [])) end)}
