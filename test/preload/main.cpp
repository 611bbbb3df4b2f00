extern "C" int nccl_check(int argc, char** argv);

int main(int argc, char** argv) {
  return nccl_check(argc, argv);
}
