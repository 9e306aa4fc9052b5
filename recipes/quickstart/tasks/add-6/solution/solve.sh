#!/bin/bash
set -e
echo 782 >> i
