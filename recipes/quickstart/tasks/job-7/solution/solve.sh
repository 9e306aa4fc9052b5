#!/bin/bash
set -e
cat v
echo 876 > i
