#!/bin/bash
set -e
echo 190 >> t
