#!/bin/bash
set -e
cp y i
