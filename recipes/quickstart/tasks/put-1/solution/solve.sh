#!/bin/bash
set -e
echo 440 > d
