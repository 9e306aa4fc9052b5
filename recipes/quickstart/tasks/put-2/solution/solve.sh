#!/bin/bash
set -e
echo 569 > k
