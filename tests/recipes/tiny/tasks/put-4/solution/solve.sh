#!/bin/bash
echo 4 > out
