#!/bin/bash
set -e
echo 520 > z
