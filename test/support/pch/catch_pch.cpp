// This program exists for its precompiled header.
int main() {}
