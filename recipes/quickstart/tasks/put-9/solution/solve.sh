#!/bin/bash
set -e
echo 911 > f
