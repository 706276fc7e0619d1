# Text files as functions of a source file. At build time:
#   cmake -DOUTPUT=assets.cpp -DHEADER=runtime/report/assets.h -DNAMESPACE=tw::runtime -DFILES=a.css:style;b.js:script -P embed.cmake

# tw_embed(<target> HEADER <header> NAMESPACE <namespace> FILES <path>:<function>...)
# The header declares `std::string_view function();` for each file.
function(tw_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 tw "" "HEADER;NAMESPACE" "FILES")
  set(output ${CMAKE_BINARY_DIR}/embedded/${target}.cpp)
  foreach(pair IN LISTS tw_FILES)
    string(REGEX REPLACE ":.*" "" path ${pair})
    list(APPEND depends ${CMAKE_SOURCE_DIR}/${path})
  endforeach()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${tw_HEADER} -DNAMESPACE=${tw_NAMESPACE} "-DFILES=${tw_FILES}"
      -DROOT=${CMAKE_SOURCE_DIR} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${depends} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "embed assets of ${target}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
  foreach(pair IN LISTS FILES)
    string(REGEX MATCH "^(.*):(.*)$" unused ${pair})
    set(path ${CMAKE_MATCH_1})
    set(function ${CMAKE_MATCH_2})
    # Bytes, not a string literal: nothing to escape, no limit of length.
    file(READ ${ROOT}/${path} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(APPEND text "static constexpr unsigned char ${function}_bytes[] = {${bytes}};\n"
      "std::string_view ${function}() { return {reinterpret_cast<const char*>(${function}_bytes), sizeof ${function}_bytes}; }\n")
  endforeach()
  string(APPEND text "}  // namespace ${NAMESPACE}\n")
  file(WRITE ${OUTPUT} "${text}")
endif()
