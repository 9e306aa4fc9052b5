#!/bin/bash
set -e
echo 259 >> c
