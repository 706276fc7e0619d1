// tests/hw/base/file_test.cpp: whole files, and nothing half written.
#include "hw/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/support.h"

namespace tw {
namespace {

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(File, WritesAndReads) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  ASSERT_TRUE(write_file(path, std::string("hello")));
  EXPECT_EQ(*read_text_file(path), "hello");
  ASSERT_TRUE(write_file(path, std::string()));
  EXPECT_EQ(*read_text_file(path), "");
  EXPECT_EQ(files_in(folder.file("")), 1U);
}

TEST(File, ReadsRanges) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a.bin");
  ASSERT_TRUE(write_file(path, std::string("0123456789")));
  std::vector<std::byte> part(4);
  ASSERT_TRUE(read_file_range(path, 3, part));
  EXPECT_EQ(static_cast<char>(part[0]), '3');
  const Status beyond = read_file_range(path, 8, part);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::io);
  EXPECT_NE(beyond.error().message.find("ends after 10 bytes"), std::string::npos) << beyond.error().message;
}

TEST(File, TellsWhatCannotBeRead) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.file("absent")).error().kind, ErrorKind::io);
  EXPECT_EQ(read_file(folder.file("")).error().kind, ErrorKind::io);
  ASSERT_TRUE(write_file(folder.file("large"), std::string(100, 'x')));
  EXPECT_NE(read_file(folder.file("large"), 99).error().message.find("at most 99"), std::string::npos);
}

TEST(File, TellsWhatCannotBeWritten) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(write_file(folder.file("no/such/folder"), std::string("x")).error().kind, ErrorKind::io);
}

TEST(File, AFailureLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a");
  ASSERT_TRUE(write_file(path, std::string("old")));
  const Status status = write_file(path, [](const ByteSink& sink) -> Status {
    TW_TRY_STATUS(sink(std::vector<std::byte>(1000)));
    return fail(ErrorKind::bad_input, "gave up");
  });
  EXPECT_EQ(status.error().message, "gave up");
  EXPECT_EQ(*read_text_file(path), "old");
  EXPECT_EQ(files_in(folder.file("")), 1U);
}

TEST(File, WritesThroughADevice) { EXPECT_TRUE(write_file("/dev/null", std::string("gone"))); }

}  // namespace
}  // namespace tw
