#!/bin/bash
set -e
echo 444 >> p
