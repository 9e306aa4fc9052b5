#!/bin/bash
set -e
cat m
echo 503 > v
