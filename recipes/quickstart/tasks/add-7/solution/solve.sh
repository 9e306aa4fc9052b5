#!/bin/bash
set -e
echo 990 >> n
