#!/bin/bash
set -e
cat x
echo 129 > v
