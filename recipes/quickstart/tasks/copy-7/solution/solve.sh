#!/bin/bash
set -e
cp x r
