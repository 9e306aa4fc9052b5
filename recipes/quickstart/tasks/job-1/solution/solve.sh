#!/bin/bash
set -e
cat h
echo 141 > k
