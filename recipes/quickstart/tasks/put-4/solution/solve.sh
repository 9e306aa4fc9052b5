#!/bin/bash
set -e
echo 132 > x
