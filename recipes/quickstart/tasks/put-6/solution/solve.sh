#!/bin/bash
set -e
echo 236 > j
