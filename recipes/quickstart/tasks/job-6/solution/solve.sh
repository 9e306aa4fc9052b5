#!/bin/bash
set -e
cat v
echo 953 > x
