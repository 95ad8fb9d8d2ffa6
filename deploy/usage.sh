# Sourced by the project's commands, which are bash: arguments are looked at before anything is installed or built.
#
#   usage_check FILE "$@"
#
# FILE is the command. The comment at its head is what --help prints, and the one list of what it takes: in the lines
# that begin with the command's path, "--name" is an option, "--name VALUE" one with a value, and other words of
# capitals are arguments, any number of them before "...". Two blanks end the part that is read. Anything else is
# refused with these lines and exit code 2.

# The comment, without its marks.
usage_text() {
  sed -n '1d; /^[^#]/q; /^$/q; s/^# \{0,1\}//p' "$1"
}

# The lines that show how the command is typed.
usage_lines() {
  usage_text "$1" | sed -n "s|^  \([^ ]*$(basename "$1")\)|\1|p"
}

# usage_refuse FILE WHY
usage_refuse() {
  local name
  name=$(usage_lines "$1" | sed 's/ .*//; q')
  echo "$name: $2 (--help tells more)" >&2
  usage_lines "$1" | sed '1s/^/usage: /; 2,$s/^/       /' >&2
  exit 2
}

usage_check() {
  local file=$1 word last='' most=0 value_of=''
  local -A takes=() # by option: its value's name, or nothing
  shift
  while read -r word; do
    case $word in
    --*) takes[$word]='' last=$word ;;
    ...) most=1000 ;;
    [A-Z]*) if [ -n "$last" ]; then takes[$last]=$word; else most=$((most + 1)); fi && last='' ;;
    *) last='' ;;
    esac
  done < <(usage_lines "$file" | sed 's/  .*//; s/[][]//g' | tr ' ' '\n')

  for word in "$@"; do
    if [ -n "$value_of" ]; then
      value_of=''
      continue
    fi
    case $word in
    -h | --help)
      usage_text "$file"
      exit 0
      ;;
    -*)
      local name=${word%%=*}
      [ -n "${takes[$name]+there}" ] || usage_refuse "$file" "unknown option $word"
      if [ -n "${takes[$name]}" ]; then
        [ "$name" != "$word" ] || value_of=$word
      elif [ "$name" != "$word" ]; then
        usage_refuse "$file" "$name takes no value"
      fi
      ;;
    *)
      most=$((most - 1))
      [ "$most" -ge 0 ] || usage_refuse "$file" "unexpected argument '$word'"
      ;;
    esac
  done
  [ -z "$value_of" ] || usage_refuse "$file" "$value_of needs a value: ${takes[$value_of]}"
}
