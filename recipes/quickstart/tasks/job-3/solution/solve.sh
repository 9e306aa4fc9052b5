#!/bin/bash
set -e
cat r
echo 302 > n
