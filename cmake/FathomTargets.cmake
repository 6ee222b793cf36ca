# Two helpers used by every room: a library with the project's flags, and a GoogleTest binary that
# ctest runs alone or under mpirun with a fixed number of ranks.

add_library(fathom_flags INTERFACE)
target_compile_features(fathom_flags INTERFACE cxx_std_20)
# NaN and infinity checks must keep working, so no -ffast-math: only errno and trapping are dropped.
# -Wrestrict: g++ 12 reports std::string concatenation (its bug 105651).
target_compile_options(fathom_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wno-restrict -fno-math-errno -fno-trapping-math>
  $<$<AND:$<BOOL:${FATHOM_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
target_include_directories(fathom_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})

# fathom_library(name SOURCES a.cpp b.cpp LINK other_target ...)
function(fathom_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC fathom_flags ${arg_LINK})
endfunction()

set(FATHOM_TEST_MPIRUN ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none
  --mca pml ob1 --mca btl self,vader --mca btl_vader_eager_limit 64)

# fathom_test(name SOURCES x_test.cpp LINK lib ... [RANKS 2 4 ...] [THREADS n])
# Without RANKS the binary runs alone. With RANKS it gets the main of tests/mpi_main.cpp and runs once
# per count under mpirun, with a 64-byte eager limit so that an unmatched send hangs here and not on a
# user's cluster.
function(fathom_test name)
  cmake_parse_arguments(arg "" "THREADS;TIMEOUT" "SOURCES;LINK;RANKS" ${ARGN})
  if(NOT arg_THREADS)
    set(arg_THREADS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE fathom_flags ${arg_LINK})
  # What is tested is compiled as it is shipped; the tests themselves would take 1.4 times as long with -O3.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE
    FATHOM_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" FATHOM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(arg_RANKS)
    set_target_properties(${name} PROPERTIES FATHOM_RANKS "${arg_RANKS}")
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/mpi_main.cpp)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${name} PRIVATE GTest::gtest fathom_comm)
    foreach(ranks ${arg_RANKS})
      add_test(NAME ${name}_np${ranks}
        COMMAND ${FATHOM_TEST_MPIRUN} -x FATHOM_TEST_RANKS=${ranks} -x OMP_NUM_THREADS=${arg_THREADS}
          -np ${ranks} $<TARGET_FILE:${name}>)
      set_tests_properties(${name}_np${ranks} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS mpi)
    endforeach()
  else()
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "OMP_NUM_THREADS=${arg_THREADS}")
  endif()
endfunction()

# fathom_sim_test(test [RANKS 2 4 ...] [FILTER Suite.*:-Suite.Slow] [STREAMS eager lazy]
#   [ORDERS forward reverse random] [CHECK_MESSAGES] [ASAN] [VARIANT name] [TIMEOUT seconds])
# Runs the binary of a fathom_test() once more, as sim_<test>, on the library that stands in for a GPU
# (src/gpu/sim), where that is built: the tests of FILTER, once for each way of STREAMS (lazy ones do
# nothing before someone waits for them; eager by default) and each order of ORDERS in which threads and
# blocks take their turns (forward by default). CHECK_MESSAGES proves besides that messages are received in the
# order in which they were sent. ASAN takes the library that the address sanitizer watches. A VARIANT tells
# entries of one test apart that other words do not. The binary fails unless it is on that library.
function(fathom_sim_test test)
  fathom_expect_backend(${test})
  if(NOT TARGET fathom_kernels_sim)
    return()
  endif()
  cmake_parse_arguments(arg "ASAN;CHECK_MESSAGES" "FILTER;TIMEOUT;VARIANT" "RANKS;STREAMS;ORDERS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_STREAMS)
    set(arg_STREAMS eager)
  endif()
  if(NOT arg_ORDERS)
    set(arg_ORDERS forward)
  endif()
  if(NOT arg_RANKS)
    set(arg_RANKS 1)
  endif()
  set(library fathom_kernels_sim)
  set(environment FATHOM_TEST_BACKEND=sim OMP_NUM_THREADS=1)
  if(arg_ASAN)
    set(library fathom_kernels_sim_asan)
    # Before the binary's other libraries. Kernels that a test ends in the middle leave what their message was made of.
    list(APPEND environment LD_PRELOAD=${FATHOM_LIBASAN} ASAN_OPTIONS=detect_leaks=0)
    set(arg_VARIANT asan)
  endif()
  list(APPEND environment LD_LIBRARY_PATH=$<TARGET_FILE_DIR:${library}>)
  if(arg_FILTER)
    list(APPEND environment "GTEST_FILTER=${arg_FILTER}")
  endif()
  if(arg_CHECK_MESSAGES)
    list(APPEND environment FATHOM_CHECK_MESSAGES=1)
  endif()
  get_target_property(under_mpi ${test} FATHOM_RANKS)
  set(base sim_${test})
  if(arg_VARIANT)
    set(base ${base}_${arg_VARIANT})
  endif()
  foreach(ranks ${arg_RANKS})
    foreach(streams ${arg_STREAMS})
      foreach(order ${arg_ORDERS})
        set(name ${base})
        set(command ${test})
        set(labels sim)
        if(under_mpi)
          set(name ${base}_np${ranks})
          set(command ${FATHOM_TEST_MPIRUN} -x FATHOM_TEST_RANKS=${ranks} -np ${ranks} $<TARGET_FILE:${test}>)
          set(labels "mpi;sim")
        endif()
        foreach(word ${streams} ${order})
          if(NOT word MATCHES "^(eager|forward)$")
            set(name ${name}_${word})
          endif()
        endforeach()
        set(ways
          FATHOM_SIM_STREAMS=${streams} FATHOM_SIM_THREADS=${order} FATHOM_SIM_BLOCKS=${order})
        add_test(NAME ${name} COMMAND ${command})
        set_tests_properties(${name} PROPERTIES
          LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment};${ways}")
      endforeach()
    endforeach()
  endforeach()
endfunction()

# Has a test's binary fail where FATHOM_TEST_BACKEND names another kernel library than the loaded one.
function(fathom_expect_backend test)
  get_target_property(sources ${test} SOURCES)
  set(check ${CMAKE_SOURCE_DIR}/tests/expected_backend.cpp)
  if(NOT check IN_LIST sources)
    target_sources(${test} PRIVATE ${check})
  endif()
endfunction()
