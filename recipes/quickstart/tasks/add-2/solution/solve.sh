#!/bin/bash
set -e
echo 387 >> n
