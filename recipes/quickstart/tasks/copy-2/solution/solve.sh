#!/bin/bash
set -e
cp e c
