#!/bin/bash
set -e
echo 571 >> q
