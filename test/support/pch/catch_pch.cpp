// What is wanted of this program is its precompiled header.
int main() {}
