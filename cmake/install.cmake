# What `cmake --install` puts where: the binary with manual and completions, machine files, schemas, headers, static
# libraries and a CMake package, so that find_package(tilewright) works from outside.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(tw_data ${CMAKE_INSTALL_DATADIR}/tilewright)
install(DIRECTORY hw/machines/ DESTINATION ${tw_data}/machines FILES_MATCHING PATTERN "*.toml")
if(EXISTS ${CMAKE_SOURCE_DIR}/docs/schema)
  install(DIRECTORY docs/schema/ DESTINATION ${tw_data}/schema FILES_MATCHING PATTERN "*.json")
endif()
install(DIRECTORY hw compiler simulator runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tilewright
  FILES_MATCHING PATTERN "*.h" PATTERN "machines" EXCLUDE PATTERN "assets" EXCLUDE)

# Folders of libraries, outermost first; the package config links them as one group.
set(tw_archives "")
get_property(targets DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY" AND NOT target MATCHES "^tw_tests_")
    install(TARGETS ${target} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/tilewright)
    list(APPEND tw_archives ${target})
  endif()
endforeach()
set(tw_package ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
set(tw_include ${CMAKE_INSTALL_INCLUDEDIR}/tilewright)
set(tw_library_folder ${CMAKE_INSTALL_LIBDIR}/tilewright)
configure_package_config_file(cmake/tilewrightConfig.cmake.in ${CMAKE_BINARY_DIR}/package/tilewrightConfig.cmake
  INSTALL_DESTINATION ${tw_package} PATH_VARS tw_include tw_library_folder)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/tilewrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/tilewrightConfig.cmake
  ${CMAKE_BINARY_DIR}/package/tilewrightConfigVersion.cmake DESTINATION ${tw_package})

if(TARGET tilewright)
  install(TARGETS tilewright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Manual and completions are printed by the binary from its own table of verbs.
  set(generated ${CMAKE_BINARY_DIR}/generated)
  add_custom_command(
    OUTPUT ${generated}/tilewright.1 ${generated}/tilewright.bash ${generated}/_tilewright
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND tilewright manual > ${generated}/tilewright.1
    COMMAND tilewright completion bash > ${generated}/tilewright.bash
    COMMAND tilewright completion zsh > ${generated}/_tilewright
    DEPENDS tilewright
    COMMENT "manual and completions" VERBATIM)
  add_custom_target(tw_manual ALL
    DEPENDS ${generated}/tilewright.1 ${generated}/tilewright.bash ${generated}/_tilewright)
  install(FILES ${generated}/tilewright.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${generated}/tilewright.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME tilewright)
  install(FILES ${generated}/_tilewright DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()

if(TILEWRIGHT_TESTS)
  set(tw_flags "")
  if(TILEWRIGHT_SANITIZE)
    set(tw_flags -fsanitize=${TILEWRIGHT_SANITIZE})
  endif()
  add_test(NAME Install.PackageIsFoundFromOutside
    COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DSOURCE=${CMAKE_SOURCE_DIR}
      -DWORK=${CMAKE_BINARY_DIR}/install_check -DFLAGS=${tw_flags} -P ${CMAKE_SOURCE_DIR}/tests/install/check.cmake)
  set_tests_properties(Install.PackageIsFoundFromOutside PROPERTIES TIMEOUT 600)
endif()
