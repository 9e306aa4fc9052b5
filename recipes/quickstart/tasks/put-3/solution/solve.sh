#!/bin/bash
set -e
echo 438 > u
