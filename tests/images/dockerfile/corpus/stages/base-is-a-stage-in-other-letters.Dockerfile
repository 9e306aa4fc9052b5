FROM a AS base
FROM Base
