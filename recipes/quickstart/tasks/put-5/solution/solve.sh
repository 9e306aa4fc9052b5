#!/bin/bash
set -e
echo 683 > l
