#!/bin/bash
set -e
cat i
echo 634 > w
