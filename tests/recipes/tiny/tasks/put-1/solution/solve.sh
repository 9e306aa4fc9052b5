#!/bin/bash
echo 1 > out
