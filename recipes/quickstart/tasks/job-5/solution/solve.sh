#!/bin/bash
set -e
cat y
echo 404 > w
