#!/bin/bash
echo 5 > out
