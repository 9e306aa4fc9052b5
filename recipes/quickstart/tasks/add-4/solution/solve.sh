#!/bin/bash
set -e
echo 135 >> x
