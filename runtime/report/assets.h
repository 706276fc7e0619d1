// runtime/report/assets.h: the files of runtime/report/assets, embedded by the build (cmake/embed.cmake).
#pragma once
#include <string_view>

namespace tw::runtime {

std::string_view page_style();   // assets/page.css
std::string_view page_script();  // assets/page.js

}  // namespace tw::runtime
