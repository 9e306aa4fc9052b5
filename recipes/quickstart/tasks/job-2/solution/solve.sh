#!/bin/bash
set -e
cat v
echo 988 > u
