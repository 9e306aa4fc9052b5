#!/bin/bash
# Reads what the commands left. parsed: anything differs from the start, so a call was read and run. state: the share of
# characters that are right in the file the task is about.
start=i start_line='put 634 in w' file=w kept_line= want=634

LC_ALL=C
shopt -s nullglob

# REPLY: the first 64 characters of a regular file; empty for anything else.
content() {
    REPLY=
    [[ -f $1 && ! -L $1 ]] && IFS= read -r -N 64 REPLY < "$1"
}

entries=(*)
content "$start"
parsed=1
[[ ${#entries[@]} -eq 1 && $REPLY == "$start_line"$'\n' ]] && parsed=0

content "$file"
left=$REPLY right=0
if [[ -n $kept_line ]]; then
    [[ $left == "$kept_line"$'\n'* ]] && left=${left#*$'\n'} || left=
fi
left=${left%$'\n'}
if (( parsed && ${#left} == ${#want} )); then
    for (( i = 0; i < ${#want}; i++ )); do
        [[ ${left:i:1} == "${want:i:1}" ]] && (( right++ ))
    done
fi

state=$(( 1000 * right / ${#want} ))
reward=$(( 200 * parsed + 800 * state / 1000 ))
printf '{"reward": %d.%03d, "parsed": %d, "state": %d.%03d}\n' \
    $(( reward / 1000 )) $(( reward % 1000 )) "$parsed" $(( state / 1000 )) $(( state % 1000 )) \
    > "${PLATOON_SANDBOX_ROOT:-}/logs/verifier/reward.json"
