#!/bin/bash
echo 2 > out
