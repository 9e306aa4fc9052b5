#!/bin/bash
set -e
cat e
echo 460 > l
