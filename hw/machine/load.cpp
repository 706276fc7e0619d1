// hw/machine/load.cpp: where machine files are found.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "hw/base/file.h"
#include "hw/base/text.h"
#include "hw/machine/machine.h"

namespace tw::hw {
namespace {

namespace fs = std::filesystem;

// Folders that may hold machine files, best first: $TILEWRIGHT_DATA, the installed place, a source tree above the
// binary.
std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  if (const char* data = std::getenv("TILEWRIGHT_DATA"); data && *data) folders.push_back(fs::path(data) / "machines");
  std::error_code failed;
  fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  if (failed) return folders;
  folders.push_back(folder.parent_path() / "share" / "tilewright" / "machines");
  for (int level = 0; level < 4 && folder != folder.root_path(); ++level, folder = folder.parent_path())
    folders.push_back(folder / "hw" / "machines");  // build trees: build/, build/x/, ...
  return folders;
}

bool is_path(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".toml"); }

}  // namespace

std::vector<MachineFile> list_machines() {
  std::vector<MachineFile> files;
  for (const fs::path& folder : machine_folders()) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
      const std::string name = entry.path().stem().string();
      const bool seen = std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.name == name; });
      if (entry.path().extension() == ".toml" && !seen) files.push_back({name, entry.path().string()});
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

Result<Machine> load_machine(const std::string& name_or_path) {
  std::string path = name_or_path;
  if (!is_path(name_or_path)) {
    const std::vector<MachineFile> files = list_machines();
    const auto found =
        std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.name == name_or_path; });
    if (found == files.end()) {
      std::vector<std::string> names;
      for (const MachineFile& file : files) names.push_back(file.name);
      return fail(ErrorKind::bad_input,
                  fmt::format("no machine \"{}\"{}; known are: {}", name_or_path, did_you_mean(name_or_path, names),
                              names.empty() ? "none" : join(names, ", ")),
                  {{"machine", name_or_path}},
                  names.empty() ? "set TILEWRIGHT_DATA to the folder that has machines/ipu21.toml"
                                : "name one of these or give the path of a .toml file");
    }
    path = found->path;
  }
  TW_TRY(const std::string text, read_text_file(path, 1 << 20));
  return parse_machine(text, path);
}

}  // namespace tw::hw
