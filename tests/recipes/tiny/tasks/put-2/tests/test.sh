#!/bin/bash
# Half for a file that is there, all for the right digit in it.
parsed=0 state=0 reward=0
if [ -f out ]; then
    parsed=1 reward=0.5
    if [ "$(head -c 1 out)" = 2 ]; then state=1 reward=1; fi
fi
echo "{\"reward\": $reward, \"parsed\": $parsed, \"state\": $state}" > "${PLATOON_SANDBOX_ROOT:-}/logs/verifier/reward.json"
