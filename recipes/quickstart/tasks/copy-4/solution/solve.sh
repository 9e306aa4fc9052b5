#!/bin/bash
set -e
cp x k
