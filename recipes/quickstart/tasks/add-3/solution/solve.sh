#!/bin/bash
set -e
echo 241 >> s
