#!/bin/bash
set -e
echo 172 > p
