#!/bin/bash
set -e
echo 882 > x
