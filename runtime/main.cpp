// runtime/main.cpp: the tilewright binary.
#include "runtime/cli/verb.h"

int main(int argc, char** argv) { return tw::runtime::run_command_line(argc, argv); }
